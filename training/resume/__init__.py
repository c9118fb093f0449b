"""Decide what a training resumes from and which samples it skips. Imports no torch, because it runs on login nodes."""
