"""rota: a multi-tenant, distributed job scheduler on PostgreSQL."""
