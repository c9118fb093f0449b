"""The launcher: it runs one segment of a training after another, records their ends, and queues the next one's job."""
