// The unmodified client: dropped and stalled connections, and a server that shuts down.
import { endingServerTests, reconnectTests } from './supabase-js/realtime-reconnects.ts'
import { realtimeSuite } from './supabase-js/realtime-suite.ts'

realtimeSuite('reconnect', [reconnectTests], [endingServerTests])
