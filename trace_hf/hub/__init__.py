"""What goes to a Hub repo: the export with its card and Croissant file, and the data terms."""
