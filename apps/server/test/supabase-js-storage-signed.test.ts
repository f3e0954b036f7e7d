// The unmodified client: signed download and upload URLs, and public URLs.
import { publicTests } from './supabase-js/storage-public.ts'
import { signedTests } from './supabase-js/storage-signed.ts'
import { signedUploadTests } from './supabase-js/storage-signed-uploads.ts'
import { storageSuite } from './supabase-js/storage-suite.ts'

storageSuite('signed', [signedTests, signedUploadTests, publicTests])
