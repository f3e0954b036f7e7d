// The unmodified client: killed servers and failing databases.
import { databaseFaultTests } from './supabase-js/realtime-database-faults.ts'
import { killedServerTests } from './supabase-js/realtime-killed-server.ts'
import { unrefLongTimers } from './supabase-js/realtime-suite.ts'

unrefLongTimers()
killedServerTests()
databaseFaultTests()
