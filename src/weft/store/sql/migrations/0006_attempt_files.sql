-- The files of each attempt, from which predictions learn. Lists are JSON.
CREATE TABLE attempt_files (
    task BIGINT NOT NULL,
    attempt BIGINT NOT NULL,
    repo TEXT NOT NULL,
    at DOUBLE PRECISION NOT NULL,
    predicted TEXT NOT NULL, -- predicted files with their probabilities and clues
    declared TEXT NOT NULL, -- patterns that the task named
    asked TEXT NOT NULL, -- patterns that the attempt had to claim besides
    changed TEXT NOT NULL, -- paths
    PRIMARY KEY (task, attempt)
);
CREATE INDEX attempt_files_repo ON attempt_files (repo, at);
