// The unmodified client: broadcast over the socket and over HTTP.
import { broadcastTests } from './supabase-js/realtime-broadcast.ts'
import { realtimeSuite } from './supabase-js/realtime-suite.ts'

realtimeSuite('broadcast', [broadcastTests])
