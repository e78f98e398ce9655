"""Databases of landed schemas with work in flight, each made by the code of its time: tools/schema_fixtures.py."""
