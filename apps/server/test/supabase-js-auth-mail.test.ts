// The unmodified client: methods that send mail.

import { codeTests } from './supabase-js/auth-codes.ts'
import { recoveryTests } from './supabase-js/auth-recovery.ts'
import { authSuite } from './supabase-js/auth-suite.ts'
import { updateUserTests } from './supabase-js/auth-update-user.ts'

authSuite('mail', [codeTests, recoveryTests, updateUserTests])
