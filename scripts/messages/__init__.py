"""What the catalogues are made of: the texts in the sources, and the files of gettext."""
