"""Reading a checkpoint whole: any parameter, its fp32 master copy and its moments, from the files of any layout.

The one implementation that export (weights) and the training (all of it, on another layout) call.
"""
