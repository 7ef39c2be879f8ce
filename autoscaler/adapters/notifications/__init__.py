"""Tells elsewhere what a job decides: to a webhook, to Slack, or as CloudEvents. Off unless the configuration names an address.

Lives here: which cycles are events, and the thread that posts them. May not: hold up a cycle, or write an address into a log. May
import: ``config``, ``clients``, ``errors``, ``model``.
"""
