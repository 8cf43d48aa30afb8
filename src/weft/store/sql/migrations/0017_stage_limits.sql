-- Limits of stages that no task has: no agent plans or merges as a stage of a run.

DELETE FROM limits WHERE resource IN ('stage/plan', 'stage/merge');
