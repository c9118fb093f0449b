"""Read a checkpoint of any layout: every parameter, its fp32 master copy and its moments.

Export uses it for the weights. Training uses it for the whole state, whatever the new layout is.
"""
