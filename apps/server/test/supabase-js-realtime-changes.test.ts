// The unmodified client: row changes and filters.
import { askingTests } from './supabase-js/realtime-asking.ts'
import { changeTests } from './supabase-js/realtime-changes.ts'
import { filterTests } from './supabase-js/realtime-filters.ts'
import { realtimeSuite } from './supabase-js/realtime-suite.ts'

realtimeSuite('changes', [changeTests, askingTests, filterTests])
