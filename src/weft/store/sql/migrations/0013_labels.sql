-- Labels of workers, which tasks may ask for, and workers that a person may tell to leave.

ALTER TABLE workers ADD COLUMN labels TEXT NOT NULL DEFAULT '[]'; -- as JSON
ALTER TABLE workers ADD COLUMN alone BOOLEAN NOT NULL DEFAULT FALSE; -- its process does nothing else
