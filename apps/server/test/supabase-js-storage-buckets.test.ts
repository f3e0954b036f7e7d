// The unmodified client: buckets, and what is not offered.
import { bucketTests } from './supabase-js/storage-buckets.ts'
import { leftOpenTests } from './supabase-js/storage-left-open.ts'
import { storageSuite } from './supabase-js/storage-suite.ts'

storageSuite('buckets', [bucketTests, leftOpenTests])
