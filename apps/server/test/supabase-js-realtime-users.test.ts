// The unmodified client: who hears of which rows.
import { rowsPerUserTests } from './supabase-js/realtime-rows-per-user.ts'
import { realtimeSuite } from './supabase-js/realtime-suite.ts'

realtimeSuite('users', [rowsPerUserTests])
