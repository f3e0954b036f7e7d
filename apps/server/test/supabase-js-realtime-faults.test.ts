// The unmodified client: servers that are killed and databases that fail.
import { databaseFaultTests } from './supabase-js/realtime-database-faults.ts'
import { killedServerTests } from './supabase-js/realtime-killed-server.ts'
import { letGoOfLongTimers } from './supabase-js/realtime-suite.ts'

letGoOfLongTimers()
killedServerTests()
databaseFaultTests()
