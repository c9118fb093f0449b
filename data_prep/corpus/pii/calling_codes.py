"""Calling codes of ITU-T E.164 with the least and greatest number of digits of a national number after them.

If a country's numbering plan also has very short special numbers, the least number of digits is that of subscribers'
numbers.
"""

from __future__ import annotations

_LENGTHS = {
    (5, 7): "290 500 676 677 678 682 683 685 690",
    (5, 8): "686",
    (6, 6): "298 299 376 508 681 687",
    (6, 7): "597 688",
    (6, 10): "378",
    (6, 11): "352 358 39",
    (7, 7): "238 239 246 248 269 291 297 423 501 592 672 673 674 679 680 691 692 960",
    (7, 8): "230 241 267 372 507 53 599 670 675 961 975",
    (7, 9): "220 231 245 252 254 265 353 354 46 967",
    (7, 10): "64 95 98 263",
    (7, 13): "43 49",
    (8, 8): "216 222 223 226 227 228 232 235 236 253 257 266 268 350 356 357 370 371 373 374 382 386 389 45 47 "
    "502 503 504 505 506 509 591 598 65 689 852 853 965 968 973 974 976 993",
    (8, 9): "213 224 258 264 32 355 359 36 377 383 385 387 51 593 66 855 886 962 963 970 971 972",
    (8, 10): "20 229 234 381 57 60 63 82 850 856 880 964 977",
    (8, 12): "62",
    (
        9,
        9,
    ): "211 212 218 221 233 237 240 242 243 244 249 250 251 255 256 260 261 262 27 31 33 34 351 375 380 40 41 420 421 "
    "48 56 590 594 595 596 61 93 94 966 992 994 995 996 998",
    (9, 10): "44 81 84 92",
    (9, 11): "86",
    (10, 10): "1 225 30 58 7 90 91",
    (10, 11): "52 54 55",
}
CALLING_CODES = {code: lengths for lengths, codes in _LENGTHS.items() for code in codes.split()}
"""Least and greatest number of digits after each calling code. No code is a prefix of another code."""
ZERO_KEPT = frozenset(["39", "225", "229", "241", "242", "378"])
"""Calling codes after which a national number may begin with 0."""


def is_international(digits: str) -> bool:
    """Return whether the digits after a `+` are a calling code and a number with a valid length for this code."""
    code = next((digits[:size] for size in (1, 2, 3) if digits[:size] in CALLING_CODES), "")
    national = digits[len(code) :]
    if not code or len(set(national)) < 3 or len(digits) > 15:
        return False
    if code == "1" and (national[0] in "01" or national[3:4] in ("0", "1")):  # North America: NXX NXX XXXX
        return False
    least, greatest = CALLING_CODES[code]
    return least <= len(national) <= greatest and (national[0] != "0" or code in ZERO_KEPT)
