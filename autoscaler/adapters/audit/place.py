"""Where the tables lie, and how Spark and deltalake are told: a directory, an address, or a schema of Spark's catalog."""

from dataclasses import dataclass
from pathlib import Path

from autoscaler.config import places


@dataclass(frozen=True, slots=True)
class TablesPlace:
    """The place of all tables: an absolute path, an address such as ``s3a://bucket/x``, or ``catalog.schema``."""

    root: str

    @classmethod
    def of(cls, where: "str | Path | TablesPlace") -> "TablesPlace":
        """Return a place as it is written, or as the path that it is."""
        return where if isinstance(where, TablesPlace) else cls(str(where))

    @property
    def catalog(self) -> bool:
        """Return whether it is a schema of a catalog, which alone knows where its tables lie."""
        return places.is_catalog(self.root)

    @property
    def local(self) -> Path | None:
        """Return the directory on this machine; ``None``: it is elsewhere."""
        return places.local(self.root)

    def at(self, name: str) -> str:
        """Return where a table is, for people and for who opens it by its address; of a catalog its name there."""
        return f"{self.root}.{name}" if self.catalog else f"{self.root}/{name}"

    def named(self, name: str) -> str:
        """Return a table's name in Spark's SQL."""
        if not self.catalog:
            return f"delta.`{self.at(name)}`"
        return ".".join(f"`{part}`" for part in (*self.root.split("."), name))

    def __str__(self) -> str:
        """Return it as it is written."""
        return self.root
