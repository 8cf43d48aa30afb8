"""The routes of the page: its shell, its views as HTML fragments, its acts."""
