-- Removes everything of Headway, jobs and history included.

drop schema headway cascade;
