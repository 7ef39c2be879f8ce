"""The audit without Spark: tables, rows, the buffer that holds them, the journal that survives a kill, and the views' SQL."""
