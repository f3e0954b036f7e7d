// The unmodified client: presence with three clients.
import { presenceTests } from './supabase-js/realtime-presence.ts'
import { realtimeSuite } from './supabase-js/realtime-suite.ts'

realtimeSuite('presence', [presenceTests])
