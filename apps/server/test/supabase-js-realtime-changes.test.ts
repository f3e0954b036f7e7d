// The unmodified client: row changes, filters, and who hears of which rows.
import { changeTests } from './supabase-js/realtime-changes.ts'
import { filterTests } from './supabase-js/realtime-filters.ts'
import { rowsPerUserTests } from './supabase-js/realtime-rows-per-user.ts'
import { realtimeSuite } from './supabase-js/realtime-suite.ts'

realtimeSuite('changes', [changeTests, filterTests, rowsPerUserTests])
