// The unmodified client: tokens on an open socket.
import { authTests } from './supabase-js/realtime-auth.ts'
import { realtimeSuite } from './supabase-js/realtime-suite.ts'

realtimeSuite('auth', [authTests])
