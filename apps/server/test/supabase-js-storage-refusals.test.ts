// The unmodified client: errors and permissions.
import { callerTests } from './supabase-js/storage-callers.ts'
import { refusalTests } from './supabase-js/storage-refusals.ts'
import { storageSuite } from './supabase-js/storage-suite.ts'

storageSuite('refusals', [refusalTests, callerTests])
