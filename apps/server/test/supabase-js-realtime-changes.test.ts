// The unmodified client: row changes and filters.

import { changeTests } from './supabase-js/realtime-changes.ts'
import { filterTests } from './supabase-js/realtime-filters.ts'
import { subscribingTests } from './supabase-js/realtime-subscribing.ts'
import { realtimeSuite } from './supabase-js/realtime-suite.ts'

realtimeSuite('changes', [changeTests, subscribingTests, filterTests])
