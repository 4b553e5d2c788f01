"""SCHEDULES: what tenants asked for, and the small shared rows that say when, where and what if."""
