"""The only room with SQL: schema, connections under one tenant, and what is read and written there."""
