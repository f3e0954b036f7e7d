// The unmodified client: image transformations.
import { storageSuite } from './supabase-js/storage-suite.ts'
import { transformTests } from './supabase-js/storage-transforms.ts'

storageSuite('transforms', [transformTests])
