// The unmodified client: whose token counts on an open socket, and until when.
import { authTests } from './supabase-js/realtime-auth.ts'
import { realtimeSuite } from './supabase-js/realtime-suite.ts'

realtimeSuite('auth', [authTests])
