"""Bytes of a user's text file -> text, in the encodings that editors and spreadsheets write.

UTF-8 with or without a byte-order mark, UTF-16 and UTF-32 with one, and UTF-16 without one where every other
byte of the beginning is 0, which no other text has.

Invariant: text, or a RecordError of one line that names the encoding or the first byte that is no text. Not
here: what the text means.
"""

import codecs

from steelyard._base.errors import RecordError

_MARKS = (
    # The mark of UTF-16 is the beginning of that of UTF-32.
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LOOKED_AT = 256
_FEW = 0.1


def encoding_of(head: bytes) -> str:
    """Return the codec of text that begins with ``head``.

    >>> encoding_of(b"a,b"), encoding_of("a,b".encode("utf-16")), encoding_of("a,b,c".encode("utf-16-le"))
    ('utf-8-sig', 'utf-16', 'utf-16-le')
    """
    for mark, codec in _MARKS:
        if head.startswith(mark):
            return codec
    head = head[:_LOOKED_AT]
    for zeros, letters, codec in ((1, 0, "utf-16-le"), (0, 1, "utf-16-be")):
        wide, narrow = head[zeros::2], head[letters::2]
        if (
            len(wide) > 1
            and wide.count(0) >= (1 - _FEW) * len(wide)
            and narrow.count(0) <= _FEW * len(narrow)
        ):
            return codec
    return "utf-8-sig"


def text_of(data: bytes, where: str, *, errors: str = "strict") -> str:
    """Return the text of a file. ``errors`` as ``bytes.decode`` takes it.

    Raises RecordError, which begins with ``where``.
    """
    codec = encoding_of(data[:_LOOKED_AT])
    try:
        return data.decode(codec, errors)
    except UnicodeDecodeError as error:
        name = "UTF-8" if codec == "utf-8-sig" else codec.upper()
        raise RecordError(
            f"{where}: not {name} text: byte {data[error.start]:#04x} at {error.start:,}",
            hint="save it as UTF-8",
        ) from error
