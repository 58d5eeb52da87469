"""The JSON API: what is asked, what is answered, and what is pushed to whoever follows."""
