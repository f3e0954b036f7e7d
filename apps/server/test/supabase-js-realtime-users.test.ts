// The unmodified client: visibility of row changes per user.
import { rowsPerUserTests } from './supabase-js/realtime-rows-per-user.ts'
import { realtimeSuite } from './supabase-js/realtime-suite.ts'

realtimeSuite('users', [rowsPerUserTests])
