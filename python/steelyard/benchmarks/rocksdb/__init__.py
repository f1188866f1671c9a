"""RocksDB: db_bench filling a database, then reading it, with one thread and with all."""
