"""The rules of admission. Pure: rows and limits in, decisions out."""
