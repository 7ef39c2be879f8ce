"""Consumers in stacks by what they have free, in whole levels of the capacity. Part of *pack*.

A bitmap of three storeys, 64 to 1 each, says which stacks are not empty, so that the fullest consumer with room is found by
counting trailing zeros a few times. The consumer that came to a stack last leaves it first.
"""

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from autoscaler.packing.kernels.jit import borrowing, compiled

LEVELS = 252_000  # below 64³, and divisible by 2 to 10, 100 and 1000: such shares of a capacity lose nothing by rounding
UNASSIGNED = -1
_DE_BRUIJN = 0x03F79D71B4CB0A89  # its 64 windows of six bits are all different
_ZEROS = np.argsort([((_DE_BRUIJN << i) & (2**64 - 1)) >> 58 for i in range(64)])  # by window

Int32s = npt.NDArray[np.int32]
Words = npt.NDArray[np.uint64]


class Stacks(NamedTuple):
    """The open consumers by free levels; the arrays are changed in place."""

    top: Int32s  # int32[LEVELS + 1], the uppermost entry of each stack, ``UNASSIGNED`` if it is empty
    below: Int32s  # int32[entries], the entry under each, ``UNASSIGNED`` at the bottom
    bits: Words  # uint64, one bit per stack that is not empty
    words: Words  # uint64, one bit per word of ``bits`` that is not 0
    pages: Words  # uint64, one bit per word of ``words`` that is not 0


@borrowing
def trailing_zeros(word: np.uint64) -> int:
    """Return how many bits of a word that is not 0 stand below its lowest one."""
    lowest = word & (~word + np.uint64(1))
    return int(_ZEROS[(lowest * np.uint64(_DE_BRUIJN)) >> np.uint64(58)])


@compiled
def empty_stacks(entries: int) -> Stacks:
    """Return empty stacks with room for so many entries."""
    return Stacks(
        top=np.full(LEVELS + 1, UNASSIGNED, np.int32),
        below=np.empty(entries, np.int32),
        bits=np.zeros(64**2, np.uint64),
        words=np.zeros(64, np.uint64),
        pages=np.zeros(1, np.uint64),
    )


@borrowing
def push(stacks: Stacks, level: int, entry: int) -> None:
    """Put an entry on the stack of a number of free levels."""
    word = level >> 6
    stacks.below[entry] = stacks.top[level]
    stacks.top[level] = entry
    stacks.bits[word] |= np.uint64(1) << np.uint64(level & 63)
    stacks.words[word >> 6] |= np.uint64(1) << np.uint64(word & 63)
    stacks.pages[0] |= np.uint64(1) << np.uint64(word >> 6)


@borrowing
def pop(stacks: Stacks, level: int) -> None:
    """Take the uppermost entry from a stack that is not empty."""
    word = level >> 6
    below = stacks.below[stacks.top[level]]
    stacks.top[level] = below
    stacks.bits[word] &= ~(
        np.uint64(below == UNASSIGNED) << np.uint64(level & 63)
    )  # no branch: it would be guessed wrong half the time
    if stacks.bits[word] == 0:
        page = word >> 6
        stacks.words[page] &= ~(np.uint64(1) << np.uint64(word & 63))
        if stacks.words[page] == 0:
            stacks.pages[0] &= ~(np.uint64(1) << np.uint64(page))


@borrowing
def least_from(stacks: Stacks, level: int) -> int:
    """Return the least number of free levels, from one on, whose stack is not empty; ``UNASSIGNED`` if there is none."""
    word = level >> 6
    found = stacks.bits[word] >> np.uint64(level & 63)
    if found:
        return level + trailing_zeros(found)
    word += 1
    page = word >> 6
    found = stacks.words[page] >> np.uint64(word & 63)
    if found:
        word += trailing_zeros(found)
        return (word << 6) + trailing_zeros(stacks.bits[word])
    page += 1
    found = stacks.pages[0] >> np.uint64(page)
    if not found:
        return UNASSIGNED
    page += trailing_zeros(found)
    word = (page << 6) + trailing_zeros(stacks.words[page])
    return (word << 6) + trailing_zeros(stacks.bits[word])
