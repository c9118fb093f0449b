"""The formats that pass between rooms. Rooms never import each other; they agree here."""
