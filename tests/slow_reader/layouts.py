"""The layouts, numbers and limits of the format: what the tables of the pages say, in one place.

A layout is in the notation of `struct`: an id is QQ, a crc is I, bytes, uuids and zeros are Ns.
"""

import struct

FORMAT_VERSION = 1

ID = struct.Struct("<QQ")
LOG_HEADER = struct.Struct("<8sII16sQQ12sI")
FRONTIER_SLOT = struct.Struct("<QQQQII")
LEFT_BEHIND_MARK = struct.Struct("<8sQI")
FRAME_HEADER = struct.Struct("<IIBB2sIQIIQQQII")
COUNTERS = struct.Struct("<QQQQQ16s")
SEGMENT_HEADER = struct.Struct("<8sII16sQI16sI")
FOOTER = struct.Struct("<8sII16sQIIQQQQQQQQIIQQQQII28sI")
PAGE_ROW = struct.Struct("<QQQI4s")
INDEX_ROW = struct.Struct("<QQQQII")
NODE_HEAD = struct.Struct("<IIIIIB3sII")
PLACE_OF_A_VIEW = struct.Struct("<QQQI")
AUDIT_HEADER = struct.Struct("<8sII16sQ20sI")
AUDIT_BLOCK_HEAD = struct.Struct("<IIIIIB3sQQII")
AUDIT_FOOTER = struct.Struct("<8sII16sQI4sQQQQQQQQ12sI")
STUB = struct.Struct("<8sI4s16sQIHHQQ32sQQQQQ")
LAYOUTS = {
    "log header": LOG_HEADER,
    "frontier slot": FRONTIER_SLOT,
    "left-behind mark": LEFT_BEHIND_MARK,
    "frame header": FRAME_HEADER,
    "counters": COUNTERS,
    "segment header": SEGMENT_HEADER,
    "footer": FOOTER,
    "page row": PAGE_ROW,
    "index row": INDEX_ROW,
    "node head": NODE_HEAD,
    "place of a view": PLACE_OF_A_VIEW,
    "audit header": AUDIT_HEADER,
    "audit block head": AUDIT_BLOCK_HEAD,
    "audit footer": AUDIT_FOOTER,
    "stub header": STUB,
}

LOG_MAGIC = b"DSKLOG01"
SEGMENT_MAGIC = b"DSKSEG01"
FOOTER_MAGIC = b"DSKFOOT1"
AUDIT_MAGIC = b"DSKAUD01"
AUDIT_FOOTER_MAGIC = b"DSKAEND1"
STUB_MAGIC = b"DSKCOLD1"

FIRST_FRAME = 4096
SLOT_OFFSETS = (512, 1024)

SNAPSHOT, ENTRIES, DELETE, TRIM, SET_ID, REPLACE, MARK = range(1, 8)
GROUPS, VIEW = 16, 17
KINDS = {
    "snapshot": SNAPSHOT,
    "entries": ENTRIES,
    "delete": DELETE,
    "trim": TRIM,
    "set-id": SET_ID,
    "replace": REPLACE,
    "mark": MARK,
    "groups": GROUPS,
    "view": VIEW,
}
RECORDS = 1  # the only flag, of entries frames: records of groups stand behind the rows

SECTIONS = {"counters": 1, "segments": 2, "groups": 16, "pending": 17, "commits": 18, "settings": 19, "trimmed": 129}
MAY_BE_PASSED_OVER = 0x80

RECORD_TAGS = {
    "create": 1,
    "position": 2,
    "destroy": 3,
    "consumer": 4,
    "dismiss": 5,
    "deliver": 6,
    "end": 7,
    "assign": 8,
    "refuse": 9,
    "seen": 10,
    "delete": 11,
    "trim": 12,
    "message": 13,
    "windows": 14,
    "commit": 15,
    "setting": 16,
}
ORDERS = {"by ID": 0, "by consumer": 1, "by time": 2}
OWNED = 1 << 63
CHUNK_ROWS = 128
WINDOW_S, WINDOW_MESSAGES = 100, 100

MAX_PAYLOAD_BYTES = 64 << 20
MAX_SNAPSHOT_BYTES = 3 << 30
MAX_ROW_BYTES = 32 << 20
MAX_FIELD_BYTES = 32 << 20
MAX_FIELDS = 65_536
MAX_NODE_ENTRIES = 65_536
MAX_NODE_BYTES = 128 << 20
MAX_NODE_SHAPES = 65_536
MAX_AUDIT_NAMES_BYTES = 1 << 30
MAX_AUDIT_FRAMES_BYTES = 65 << 20
MAX_SEGMENT = (1 << 24) - 1
MAX_OFFSET = (1 << 40) - 1
MAX_NAME_BYTES = 4096
MAX_MEMBER_NAME_BYTES = 4096
MAX_GROUPS = 10_000
MAX_CONSUMERS = 100_000
MAX_PENDING = 32_000_000
MAX_PRODUCERS = 65_536
MAX_WRITERS = 1024
MAX_SETTINGS = 64
MAX_SETTING_NAME_BYTES = 255
MAX_SETTING_BYTES = 4096
MAX_STORE_JSON_BYTES = 65_536
LIMITS = {
    "payload of a frame": MAX_PAYLOAD_BYTES,
    "payload of a snapshot": MAX_SNAPSHOT_BYTES,
    "row of an entry": MAX_ROW_BYTES,
    "name or value": MAX_FIELD_BYTES,
    "fields of an entry": MAX_FIELDS,
    "entries of a node": MAX_NODE_ENTRIES,
    "raw bytes of a node": MAX_NODE_BYTES,
    "shapes of a node": MAX_NODE_SHAPES,
    "segment number": MAX_SEGMENT,
    "offset in a log file": MAX_OFFSET,
    "name of a stream": MAX_NAME_BYTES,
    "store.json": MAX_STORE_JSON_BYTES,
    "name of a group, consumer, producer, message or writer": MAX_MEMBER_NAME_BYTES,
    "groups of a stream": MAX_GROUPS,
    "consumers of a group": MAX_CONSUMERS,
    "pending entries of a stream": MAX_PENDING,
    "producers of a stream": MAX_PRODUCERS,
    "writers of a stream": MAX_WRITERS,
    "settings of a stream": MAX_SETTINGS,
    "name of a setting": MAX_SETTING_NAME_BYTES,
    "value of a setting": MAX_SETTING_BYTES,
}
