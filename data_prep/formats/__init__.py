"""The formats of the files that pass between the stages of data preparation."""
