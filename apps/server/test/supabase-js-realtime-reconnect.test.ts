// The unmodified client: connections, servers and databases that fail.
import { databaseFaultTests } from './supabase-js/realtime-database-faults.ts'
import { killedServerTests } from './supabase-js/realtime-killed-server.ts'
import { reconnectTests } from './supabase-js/realtime-reconnects.ts'
import { realtimeSuite } from './supabase-js/realtime-suite.ts'

realtimeSuite('reconnect', [reconnectTests])
killedServerTests()
databaseFaultTests()
