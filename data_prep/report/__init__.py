"""Pages for people about what data preparation did."""
