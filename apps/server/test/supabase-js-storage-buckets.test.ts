// The unmodified client: buckets and unsupported methods.
import { bucketTests } from './supabase-js/storage-buckets.ts'
import { storageSuite } from './supabase-js/storage-suite.ts'
import { unsupportedTests } from './supabase-js/storage-unsupported.ts'

storageSuite('buckets', [bucketTests, unsupportedTests])
