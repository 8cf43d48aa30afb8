"""Operations on a repository's set-up: write its files, examine it, try agents, clean up."""
