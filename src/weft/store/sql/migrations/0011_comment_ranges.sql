-- A comment of a review may be about several lines.
ALTER TABLE review_comments ADD COLUMN last BIGINT NOT NULL DEFAULT 0;
