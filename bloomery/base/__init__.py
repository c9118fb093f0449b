"""Small tools without a domain: atomic files, digests, errors, units, progress."""
