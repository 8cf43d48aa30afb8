"""Every verb a person or a program may ask for; faces only parse and print."""
