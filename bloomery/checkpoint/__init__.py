"""Read a checkpoint of any layout: every parameter, its fp32 master copy and its moments.

Export reads the weights with this package. Training reads the whole state with it, whatever the new layout is.
"""
