"""A repository with its configuration, store, agent files and server, as a process opens it."""
