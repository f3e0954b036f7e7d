// Schemas of a project database that belong to the platform.
export const platformSchemas: ReadonlySet<string> = new Set([
  'platform',
  'auth',
  'extensions',
  'storage',
  'realtime',
  'pgmq',
  'information_schema',
  'supabase_migrations',
])
